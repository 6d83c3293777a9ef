-- A survey: one row a person, answers on scales, a weight.
CREATE TABLE answers (
    respondent BIGINT PRIMARY KEY, age INTEGER NOT NULL, gender VARCHAR, state VARCHAR NOT NULL, satisfied INTEGER, income DOUBLE,
    weight DOUBLE NOT NULL, remarks VARCHAR);
