"""Orders: the large ones apart, running totals per customer, and revenue per product.

kstreams-worker run examples.orders:topology
"""

from kstreams_worker import StreamsBuilder

LARGE_CENTS = 10_000


def no_orders():
    return {"count": 0, "amount": 0}


def add_order(key, order, totals):
    return {"count": totals["count"] + 1, "amount": totals["amount"] + order["amount"]}


builder = StreamsBuilder()
orders = builder.stream("orders", key=str, value="json")

orders.filter(lambda customer, order: order["amount"] >= LARGE_CENTS).to("large-orders")

per_customer = orders.group_by_key().aggregate(no_orders, add_order, materialized="customer-totals")
per_customer.to_stream().to("customer-totals")

by_product = orders.group_by(lambda customer, order: order["product"], key=str)
by_product.aggregate(no_orders, add_order, materialized="product-revenue").to_stream().to("product-revenue")

topology = builder.build()
