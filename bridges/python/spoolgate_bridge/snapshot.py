"""The members of a snapshot: what is at the venue, in the gate's words."""
from decimal import Decimal

from .venue import decimal_or_none, plain, plain_or_none, rounded_down

ORDERS_MAX, LIST_MAX = 1000, 100


def members(journal, opens, balances, positions):
    """`opens` are the open orders by client order id, or by the venue's id where they have none."""
    foreign = [order for name, order in opens.items() if not journal.attempt(name)]
    return {
        "balances": [
            {"currency": currency, "total": plain(rounded_down(total)), "available": plain(rounded_down(available))}
            for currency, total, available in balances[:LIST_MAX]
        ],
        "positions": [{"symbol": symbol, "size": plain(size)} for symbol, size in positions[:LIST_MAX]],
        "orders": [as_worked(journal, row, opens) for row in journal.attempts("state = 'working'")[:ORDERS_MAX]],
        "foreign": [
            {"venue_id": order.venue_id, "symbol": order.symbol, "side": order.side, "size": plain(order.size)}
            for order in foreign[:LIST_MAX]
        ],
    }


def as_worked(journal, attempt, opens):
    """Returns an order as the venue works it; one that its list does not show yet, as it was placed."""
    told = journal.instruction_of(attempt)
    size, price, trigger = Decimal(attempt["size"]), decimal_or_none(told["price"]), decimal_or_none(told["trigger"])
    order = opens.get(attempt["client_order_id"]) or opens.get(attempt["venue_id"])
    if order is not None:
        size, price, trigger = order.size, order.price, order.trigger
    cum_qty = journal.filled(attempt["order_id"])
    return {
        "order_id": attempt["order_id"], "version": attempt["version"], "cum_qty": plain(cum_qty),
        "size": plain(cum_qty - Decimal(attempt["filled"]) + size),
        "price": plain_or_none(price), "trigger": plain_or_none(trigger),
    }
