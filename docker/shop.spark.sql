-- The sample shop of shop.sql in Spark's words: 5,000 customers, some 38,000 orders, the same on every machine.
CREATE TABLE IF NOT EXISTS products USING parquet AS
SELECT CAST(id AS INT) AS product_id, concat('product ', id) AS name,
       element_at(array('books', 'clothing', 'electronics', 'garden', 'groceries', 'toys'), CAST(1 + id % 6 AS INT)) AS category,
       CAST(2 + 80 * power((id * 7919 % 1009) / 1009, 3) AS DECIMAL(10, 2)) AS price
FROM range(1, 121);

CREATE TABLE IF NOT EXISTS customers USING parquet AS
SELECT id AS customer_id,
       element_at(array('north', 'north', 'south', 'east', 'east', 'west'), CAST(1 + id * 7919 % 104729 % 6 AS INT)) AS region,
       CASE WHEN id * 104723 % 1009 < 520 THEN 'F' ELSE 'M' END AS sex, CAST(1935 + id * 6007 % 10007 % 70 AS INT) AS birth_year,
       CAST(12000 + 90000 * power((id * 15485863 % 10007) / 10007, 2) AS INT) AS income,
       date_add(DATE '2020-01-01', CAST(id * 32452843 % 10007 % 1400 AS INT)) AS signup, concat('customer', id, '@example.org') AS email
FROM range(1, 5001);

CREATE TABLE IF NOT EXISTS orders USING parquet AS
SELECT c.customer_id * 32 + k.id AS order_id, c.customer_id,
       CAST(date_add(DATE '2024-01-01', CAST((c.customer_id * 49979687 + k.id * 86028121) % 10007 % 731 AS INT)) AS TIMESTAMP_NTZ) AS ts,
       CAST(5 + 200 * power(((c.customer_id * 67867967 + k.id * 15485867) % 10007) / 10007, 3) AS DECIMAL(10, 2)) AS amount,
       element_at(array('books', 'clothing', 'electronics', 'garden', 'groceries', 'toys'),
                  CAST(1 + (c.customer_id * 6011 + k.id * 9973) % 104729 % 6 AS INT)) AS category
FROM customers AS c CROSS JOIN range(0, 30) AS k
WHERE k.id < 3 / (0.1 + (c.customer_id * 86028157 % 10007) / 10007);

CREATE TABLE IF NOT EXISTS order_items USING parquet AS
SELECT o.order_id, CAST(1 + (o.order_id * 7907 + n.id * 9973) % 104729 % 120 AS INT) AS product_id,
       CAST(1 + (o.order_id + n.id) % 3 AS INT) AS quantity
FROM orders AS o CROSS JOIN range(0, 2) AS n
