-- A hospital's visits: patients, their stays, what was diagnosed and given in each, and the wards.
CREATE TABLE patients (patient_id BIGINT PRIMARY KEY, birth_year INTEGER NOT NULL, sex VARCHAR NOT NULL, postcode VARCHAR, name VARCHAR NOT NULL);
CREATE TABLE wards (ward_id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, beds INTEGER NOT NULL);
CREATE TABLE stays (
    stay_id BIGINT PRIMARY KEY, patient_id BIGINT NOT NULL REFERENCES patients (patient_id),
    ward_id INTEGER NOT NULL REFERENCES wards (ward_id), admitted DATE NOT NULL, nights INTEGER NOT NULL, emergency BOOLEAN NOT NULL);
CREATE TABLE diagnoses (stay_id BIGINT NOT NULL REFERENCES stays (stay_id), chapter VARCHAR NOT NULL, code VARCHAR NOT NULL);
CREATE TABLE doses (stay_id BIGINT NOT NULL REFERENCES stays (stay_id), drug VARCHAR NOT NULL, milligrams DOUBLE NOT NULL);
