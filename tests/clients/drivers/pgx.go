// Go: lib/pq and pgx (its stdlib) through database/sql.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/jackc/pgconn"
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

func main() {
	driver := os.Args[1]
	db, err := sql.Open(driver, "sslmode=disable")
	if err != nil {
		panic(err)
	}
	fmt.Println(`{"version": "Debian"}`)
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
		if err := refused(err, "0A000"); err != nil {
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
	if failed {
		os.Exit(1)
	}
}
