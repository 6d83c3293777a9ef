CREATE TABLE emojis (
  id INTEGER PRIMARY KEY,
  name VARCHAR UNIQUE NOT NULL
);
INSERT INTO emojis SELECT i, chr(127744 + i::INTEGER) FROM range(2600) AS r(i);
CREATE TABLE new_words (day DATE, word_r BIGINT);
CREATE TABLE emoji_uses (day DATE, emoji_r BIGINT);
CREATE TABLE lookup_hints (day DATE, hint_r BIGINT);
CREATE TABLE energy_drains (day DATE, site_r BIGINT);
CREATE TABLE autoplay (day DATE, site_r BIGINT);
CREATE TABLE health_types (day DATE, kind_r VARCHAR);
