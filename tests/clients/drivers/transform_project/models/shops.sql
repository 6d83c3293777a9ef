SELECT s.name, b.visits, b.paid / b.visits AS mean
FROM {{ ref('by_shop') }} AS b JOIN {{ source('public', 'shops') }} AS s ON s.id = b.shop
