SELECT shop, count(*) AS visits, sum(paid) AS paid FROM {{ source('public', 'visits') }} GROUP BY shop
