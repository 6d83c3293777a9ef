{{ config(materialized='table') }}
SELECT * FROM {{ ref('by_region') }}
