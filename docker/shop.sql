-- The sample shop, smaller than the demo's: 5,000 customers, 60,000 orders, the same on every machine.
CREATE TABLE products (product_id int PRIMARY KEY, name text NOT NULL, category text NOT NULL, price numeric(10,2) NOT NULL);
CREATE TABLE customers (
    customer_id bigint PRIMARY KEY, region text NOT NULL, sex text NOT NULL, birth_year int NOT NULL, income int NOT NULL,
    signup date NOT NULL, email text NOT NULL);
CREATE TABLE orders (
    order_id bigint PRIMARY KEY, customer_id bigint NOT NULL REFERENCES customers, ts timestamp NOT NULL,
    amount numeric(10,2) NOT NULL, category text NOT NULL);
CREATE TABLE order_items (
    order_id bigint NOT NULL REFERENCES orders, product_id int NOT NULL REFERENCES products, quantity int NOT NULL);

CREATE FUNCTION chance(salt text, number bigint) RETURNS float8 IMMUTABLE LANGUAGE SQL
    RETURN (hashtextextended(salt, number) & 9007199254740991) / 9007199254740992.0;

INSERT INTO products
SELECT i, 'product ' || i, (ARRAY['books', 'clothing', 'electronics', 'garden', 'groceries', 'toys'])[1 + i % 6],
       round((2 + 80 * power(chance('price', i), 3))::numeric, 2)
FROM generate_series(1, 120) AS s(i);

INSERT INTO customers
SELECT i, (ARRAY['north', 'north', 'south', 'east', 'east', 'west'])[1 + floor(6 * chance('region', i))::int],
       CASE WHEN chance('sex', i) < 0.515 THEN 'F' ELSE 'M' END, 1935 + floor(70 * chance('year', i))::int,
       12000 + floor(90000 * power(chance('income', i), 2))::int, '2020-01-01'::date + floor(1400 * chance('signup', i))::int,
       'customer' || i || '@example.org'
FROM generate_series(1, 5000) AS s(i);

INSERT INTO orders
SELECT row_number() OVER (ORDER BY c.customer_id, k), c.customer_id,
       '2024-01-01'::timestamp + 731 * 86400 * chance('ts' || k, c.customer_id) * '1 second'::interval,
       round((5 + 200 * power(chance('amount' || k, c.customer_id), 3))::numeric, 2),
       (ARRAY['books', 'clothing', 'electronics', 'garden', 'groceries', 'toys'])[1 + floor(6 * chance('kind' || k, c.customer_id))::int]
FROM customers AS c, generate_series(1, greatest(1, (3 / (0.1 + chance('many', c.customer_id)))::int)) AS s(k);

INSERT INTO order_items
SELECT o.order_id, 1 + floor(120 * chance('product' || n, o.order_id))::int, 1 + floor(3 * chance('quantity' || n, o.order_id))::int
FROM orders AS o, generate_series(1, 2) AS s(n);

DROP FUNCTION chance;
ANALYZE;

CREATE ROLE reader LOGIN PASSWORD 'reader';
-- the rest is what `dpproxy policy grants docker/policies/shop.yaml` prints
-- what dpproxy reads for dataset shop; run it as the tables' owner or a superuser
-- CREATE ROLE "reader" LOGIN PASSWORD '...';
ALTER ROLE "reader" SET default_transaction_read_only = on;
GRANT CONNECT ON DATABASE "shop" TO "reader";
GRANT USAGE ON SCHEMA "public" TO "reader";
GRANT SELECT ("birth_year", "customer_id", "income", "region", "sex", "signup") ON "public"."customers" TO "reader";
GRANT SELECT ("amount", "category", "customer_id", "order_id", "ts") ON "public"."orders" TO "reader";
GRANT SELECT ("order_id", "product_id", "quantity") ON "public"."order_items" TO "reader";
GRANT SELECT ON "public"."products" TO "reader";
