// pgjdbc: metadata calls, fetch size, server-side prepared statements after five executions, autosave, batches, COPY.
// Run as a single source file: java -cp postgresql.jar Jdbc.java

import java.io.ByteArrayOutputStream;
import java.sql.*;
import java.util.*;
import org.postgresql.PGConnection;

public class Jdbc {
    static final String ANSWER = "SELECT region, count(*) AS n, avg(height) AS h FROM people GROUP BY region ORDER BY region";
    static final String ROWS = "SELECT * FROM people";

    interface Action { void run() throws Exception; }

    static boolean failed = false;

    static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c < 32) out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        return out.append('"').toString();
    }

    static void check(String name, Action action) {
        try {
            action.run();
            System.out.println("{\"check\": \"" + name + "\", \"ok\": true}");
        } catch (Throwable error) {
            failed = true;
            java.io.StringWriter text = new java.io.StringWriter();
            error.printStackTrace(new java.io.PrintWriter(text));
            System.out.println("{\"check\": \"" + name + "\", \"ok\": false, \"why\": " + quoted(text.toString()) + "}");
        }
    }

    static void that(boolean holds, Object what) {
        if (!holds) throw new AssertionError(String.valueOf(what));
    }

    static void close(double one, double other) { that(Math.abs(one - other) <= 3, one + " is not " + other); }

    static void answered(ResultSet rows) throws SQLException {
        String[] regions = {"east", "north", "south", "west"};
        for (String region : regions) {
            that(rows.next() && rows.getString("region").equals(region), region);
            close(rows.getLong("n"), 250);
            close(rows.getDouble("h"), 174.5);
        }
        that(!rows.next(), "more rows");
    }

    static void refused(Action action, String state) throws Exception {
        try {
            action.run();
        } catch (SQLException error) {
            that(state.equals(error.getSQLState()), error);
            return;
        }
        throw new AssertionError("no error");
    }

    static Connection connect(String... more) throws SQLException {
        Properties p = new Properties();
        p.setProperty("user", System.getenv("PGUSER"));
        p.setProperty("password", System.getenv("PGPASSWORD"));
        for (int i = 0; i < more.length; i += 2) p.setProperty(more[i], more[i + 1]);
        String url = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE");
        return DriverManager.getConnection(url, p);
    }

    public static void main(String[] arguments) throws Exception {
        String mode = arguments.length > 0 ? arguments[0] : "extended";
        Connection c = connect("preferQueryMode", mode);
        System.out.println("{\"version\": \"" + c.getMetaData().getDriverVersion() + "\"}");
        check("answer", () -> { try (Statement s = c.createStatement()) { answered(s.executeQuery(ANSWER)); } });
        check("types", () -> types(c));
        check("parameters", () -> parameters(c));
        check("prepared", () -> prepared(c));
        check("paging", () -> paging(c, mode));
        check("transactions", () -> transactions(mode));
        check("errors", () -> {
            try (Statement s = c.createStatement()) {
                refused(() -> s.executeQuery(ROWS), "42501");
                refused(() -> s.executeQuery("SELECT email FROM people"), "42703");
                answered(s.executeQuery(ANSWER));
            }
        });
        check("catalog", () -> catalog(c));
        check("copy", () -> {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            that(c.unwrap(PGConnection.class).getCopyAPI().copyOut("COPY (" + ANSWER + ") TO STDOUT", out) == 4, out);
        });
        check("cancel", () -> {
            try (Statement s = c.createStatement()) {
                s.setQueryTimeout(1);
                refused(() -> s.executeQuery("SELECT pg_sleep(20)"), "57014");
            }
        });
        c.close();
        System.exit(failed ? 1 : 0);
    }

    static void types(Connection c) throws SQLException {
        String sql = "SELECT member, sum(income) AS i, max(joined) AS j, count(*) AS n FROM people GROUP BY member ORDER BY member";
        try (Statement s = c.createStatement(); ResultSet r = s.executeQuery(sql)) {
            that(r.next() && !r.getBoolean(1) && r.getObject(2) instanceof java.math.BigDecimal, "types");
            that(r.getTimestamp(3) != null && r.getObject(4) instanceof Long, "types");
            that(r.getMetaData().getColumnTypeName(2).equals("numeric"), r.getMetaData().getColumnTypeName(2));
        }
    }

    static void parameters(Connection c) throws SQLException {
        try (PreparedStatement s = c.prepareStatement("SELECT count(*) FROM people WHERE region = ? AND height < ? AND born > ?")) {
            s.setString(1, "east");
            s.setDouble(2, 160);
            s.setDate(3, java.sql.Date.valueOf("1900-01-01"));
            ResultSet r = s.executeQuery();
            r.next();
            close(r.getLong(1), 50);
            that(s.getParameterMetaData().getParameterCount() == 3, "parameters");
            that(s.getMetaData().getColumnName(1).equals("count"), "columns");
        }
    }

    static void prepared(Connection c) throws SQLException {
        try (PreparedStatement s = c.prepareStatement("SELECT count(*) FROM people WHERE region = ?")) {
            for (int i = 0; i < 8; i++) {  // a named statement after the fifth, binary results then
                s.setString(1, i % 2 == 0 ? "east" : "west");
                ResultSet r = s.executeQuery();
                r.next();
                close(r.getLong(1), 250);
            }
        }
    }

    static void paging(Connection c, String mode) throws SQLException {
        c.setAutoCommit(false);
        try (Statement s = c.createStatement()) {
            s.setFetchSize(3);
            answered(s.executeQuery(ANSWER));
            if (mode.equals("simple")) return;  // pgjdbc forgets the limit there, with PostgreSQL too
            s.setMaxRows(2);
            ResultSet r = s.executeQuery(ANSWER);
            that(r.next() && r.next() && !r.next(), "two rows");
        } finally {
            c.rollback();
            c.setAutoCommit(true);
        }
    }

    static void transactions(String mode) throws Exception {
        try (Connection c = connect("preferQueryMode", mode, "autosave", "always"); Statement s = c.createStatement()) {
            c.setAutoCommit(false);
            answered(s.executeQuery(ANSWER));
            refused(() -> s.executeQuery(ROWS), "42501");
            answered(s.executeQuery(ANSWER));
            Savepoint p = c.setSavepoint("here");
            c.rollback(p);
            c.commit();
            c.setReadOnly(true);
            c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
            answered(s.executeQuery(ANSWER));
            c.rollback();
        }
    }

    static Set<String> column(ResultSet rows, String name) throws SQLException {
        Set<String> found = new TreeSet<>();
        while (rows.next()) found.add(rows.getString(name));
        return found;
    }

    static void catalog(Connection c) throws SQLException {
        DatabaseMetaData m = c.getMetaData();
        that(column(m.getTables(null, "public", "%", new String[] {"TABLE"}), "TABLE_NAME").equals(Set.of("people", "visits", "shops")), "tables");
        Set<String> columns = column(m.getColumns(null, "public", "people", "%"), "COLUMN_NAME");
        that(columns.contains("region") && !columns.contains("email"), columns);
        that(column(m.getPrimaryKeys(null, "public", "people"), "COLUMN_NAME").equals(Set.of("id")), "key");
        that(column(m.getImportedKeys(null, "public", "visits"), "PKTABLE_NAME").equals(Set.of("people")), "foreign key");
        that(column(m.getSchemas(), "TABLE_SCHEM").contains("public"), "schemas");
        column(m.getIndexInfo(null, "public", "people", false, false), "INDEX_NAME");
        column(m.getTypeInfo(), "TYPE_NAME");
        column(m.getFunctions(null, "dpproxy", "%"), "FUNCTION_NAME");
        column(m.getTablePrivileges(null, "public", "people"), "PRIVILEGE");
        that(m.getDatabaseProductName().equals("PostgreSQL"), m.getDatabaseProductName());
    }
}
