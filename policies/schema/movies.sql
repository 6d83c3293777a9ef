-- Movie ratings: users, what they gave to which movie and when; movies are public.
CREATE TABLE movies (movie_id INTEGER PRIMARY KEY, title VARCHAR NOT NULL, genre VARCHAR NOT NULL, year INTEGER NOT NULL);
CREATE TABLE ratings (user_id BIGINT NOT NULL, movie_id INTEGER NOT NULL REFERENCES movies (movie_id), rating DOUBLE NOT NULL, seen TIMESTAMP NOT NULL);
CREATE TABLE users (user_id BIGINT PRIMARY KEY, age INTEGER, occupation VARCHAR);
