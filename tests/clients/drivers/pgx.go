// Go: lib/pq and pgx (its stdlib) through database/sql; pgx by itself: pipelined batches, its pool, COPY, the simple protocol.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/jackc/pgconn"
	"github.com/jackc/pgx/v4"
	"github.com/jackc/pgx/v4/pgxpool"
	_ "github.com/jackc/pgx/v4/stdlib"
	"github.com/lib/pq"
)

const answer = "SELECT region, count(*) AS n, avg(height) AS h FROM people GROUP BY region ORDER BY region"

var failed = false

func check(name string, action func() error) {
	line := map[string]any{"check": name, "ok": true}
	if err := action(); err != nil {
		failed = true
		line["ok"], line["why"] = false, err.Error()
	}
	text, _ := json.Marshal(line)
	fmt.Println(string(text))
}

func answered(db interface {
	Query(string, ...any) (*sql.Rows, error)
}) error {
	rows, err := db.Query(answer)
	if err != nil {
		return err
	}
	defer rows.Close()
	var region string
	var n int64
	var h float64
	for _, known := range []string{"east", "north", "south", "west"} {
		if !rows.Next() {
			return fmt.Errorf("no row for %s: %v", known, rows.Err())
		}
		if err := rows.Scan(&region, &n, &h); err != nil {
			return err
		}
		if region != known || math.Abs(float64(n)-250) > 3 || math.Abs(h-174.5) > 3 {
			return fmt.Errorf("%s %d %f", region, n, h)
		}
	}
	return rows.Err()
}

func refused(err error, state string) error {
	var one *pgconn.PgError
	var other *pq.Error
	if errors.As(err, &one) && one.Code == state || errors.As(err, &other) && string(other.Code) == state {
		return nil
	}
	return fmt.Errorf("not %s: %v", state, err)
}

const byRegion = "SELECT count(*) FROM people WHERE region = $1"

func near(n int64, known float64) error {
	if math.Abs(float64(n)-known) > 3 {
		return fmt.Errorf("%d is not %f", n, known)
	}
	return nil
}

func batch(ctx context.Context, pool *pgxpool.Pool) error {
	waiting := &pgx.Batch{}
	for _, region := range []string{"east", "north", "west"} {
		waiting.Queue(byRegion, region)
	}
	waiting.Queue("SELECT 1/0")
	results := pool.SendBatch(ctx, waiting)
	defer results.Close()
	for i := 0; i < 3; i++ {
		var n int64
		if err := results.QueryRow().Scan(&n); err != nil {
			return err
		}
		if err := near(n, 250); err != nil {
			return err
		}
	}
	_, err := results.Exec()
	return refused(err, "22012")
}

func parallel(ctx context.Context, pool *pgxpool.Pool) error {
	done := make(chan error)
	for i := 0; i < 20; i++ {
		go func(i int) {
			var n, echoed int64
			err := pool.QueryRow(ctx, "SELECT count(*), $1::int8 FROM people", i).Scan(&n, &echoed)
			if err == nil && echoed != int64(i) {
				err = fmt.Errorf("%d is not %d", echoed, i)
			}
			if err == nil {
				err = near(n, 1000)
			}
			done <- err
		}(i)
	}
	var failure error
	for i := 0; i < 20; i++ {
		if err := <-done; err != nil {
			failure = err
		}
	}
	return failure
}

func native() {
	ctx := context.Background()
	pool, err := pgxpool.Connect(ctx, "sslmode=disable pool_max_conns=5")
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	check("answer", func() error {
		var regions []string
		var counts []int64
		all := "SELECT array_agg(region ORDER BY region), array_agg(n ORDER BY region) FROM (" + answer + ") AS _"
		if err := pool.QueryRow(ctx, all).Scan(&regions, &counts); err != nil {
			return err
		}
		if len(regions) != 4 || regions[0] != "east" {
			return fmt.Errorf("%v", regions)
		}
		return near(counts[3], 250)
	})
	check("prepared", func() error { return batch(ctx, pool) })
	check("pool", func() error { return parallel(ctx, pool) })
	check("parameters", func() error {
		var n int64
		if err := pool.QueryRow(ctx, byRegion, pgx.QuerySimpleProtocol(true), "east").Scan(&n); err != nil {
			return err
		}
		if err := near(n, 250); err != nil {
			return err
		}
		several := "SELECT count(*) FROM people WHERE region = ANY($1) AND height < $2"
		if err := pool.QueryRow(ctx, several, []string{"east", "west"}, 160.0).Scan(&n); err != nil {
			return err
		}
		return near(n, 100)
	})
	check("copy", func() error {
		connection, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer connection.Release()
		var out bytes.Buffer
		tag, err := connection.Conn().PgConn().CopyTo(ctx, &out, "COPY ("+answer+") TO STDOUT")
		if err == nil && (tag.RowsAffected() != 4 || bytes.Count(out.Bytes(), []byte("\n")) != 4) {
			err = fmt.Errorf("%s %s", tag, out.String())
		}
		return err
	})
	check("cancel", func() error {
		short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
		defer stop()
		if _, err := pool.Exec(short, "SELECT pg_sleep(20)"); err == nil {
			return errors.New("no error")
		}
		var n int64
		if err := pool.QueryRow(ctx, byRegion, "west").Scan(&n); err != nil {
			return err
		}
		return near(n, 250)
	})
	check("transactions", func() error {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		inner, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		_, err = inner.Exec(ctx, "SELECT * FROM people")
		if err := refused(err, "42501"); err != nil {
			return err
		}
		if err := inner.Rollback(ctx); err != nil {
			return err
		}
		var n int64
		if err := tx.QueryRow(ctx, byRegion, "east").Scan(&n); err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
}

func main() {
	driver := os.Args[1]
	fmt.Println(`{"version": "(Debian)"}`)
	if driver == "native" {
		native()
	} else {
		standard(driver)
	}
	if failed {
		os.Exit(1)
	}
}

// database/sql
func standard(driver string) {
	db, err := sql.Open(driver, "sslmode=disable")
	if err != nil {
		panic(err)
	}
	check("answer", func() error { return answered(db) })
	check("parameters", func() error {
		var n int64
		err := db.QueryRow("SELECT count(*) FROM people WHERE region = $1 AND height < $2", "east", 160.0).Scan(&n)
		if err == nil && math.Abs(float64(n)-50) > 2 {
			err = fmt.Errorf("%d", n)
		}
		return err
	})
	check("prepared", func() error {
		statement, err := db.Prepare("SELECT count(*) FROM people WHERE region = $1")
		if err != nil {
			return err
		}
		defer statement.Close()
		for i := 0; i < 3; i++ {
			var n int64
			if err := statement.QueryRow("west").Scan(&n); err != nil || math.Abs(float64(n)-250) > 3 {
				return fmt.Errorf("%d %v", n, err)
			}
		}
		return nil
	})
	check("types", func() error {
		var when time.Time
		var name string
		if err := db.QueryRow("SELECT opened, name FROM shops ORDER BY id LIMIT 1").Scan(&when, &name); err != nil || when.Year() != 2001 {
			return fmt.Errorf("%v %v", when, err)
		}
		return nil
	})
	check("transactions", func() error {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		if err := answered(tx); err != nil {
			return err
		}
		_, err = tx.Exec("SELECT * FROM people")
		if err := refused(err, "42501"); err != nil {
			return err
		}
		tx.Rollback()
		return answered(db)
	})
	check("errors", func() error {
		_, err := db.Query("SELECT email FROM people")
		return refused(err, "42703")
	})
	check("cancel", func() error {
		ctx, stop := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer stop()
		if _, err := db.ExecContext(ctx, "SELECT pg_sleep(20)"); err == nil {
			return errors.New("no error")
		}
		return answered(db)
	})
}
