SELECT region, count(*) AS n, avg(height) AS h FROM {{ source('public', 'people') }} GROUP BY region
