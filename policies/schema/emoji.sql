CREATE TABLE emojis (
  id INTEGER PRIMARY KEY,
  name VARCHAR UNIQUE NOT NULL
);
INSERT INTO emojis SELECT i, chr(127744 + i::INTEGER) FROM range(2600) AS r(i);
CREATE TABLE emoji_reports (
  day DATE,
  region VARCHAR,
  emoji_r BIGINT,
  n BIGINT
);
