CREATE TABLE answers (
  district VARCHAR,
  has_piles BOOLEAN
);
