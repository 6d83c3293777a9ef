-- Web analytics: visitors, page views, what is known of pages. A few visitors are scripts with a hundred thousand views.
CREATE TABLE visitors (visitor_id UUID PRIMARY KEY, country VARCHAR NOT NULL, device VARCHAR NOT NULL, first_seen DATE NOT NULL);
CREATE TABLE views (
    view_id BIGINT PRIMARY KEY, visitor_id UUID NOT NULL REFERENCES visitors (visitor_id), seen TIMESTAMP NOT NULL,
    path VARCHAR NOT NULL, referrer VARCHAR, seconds INTEGER NOT NULL);
CREATE TABLE pages (path VARCHAR PRIMARY KEY, section VARCHAR NOT NULL);
