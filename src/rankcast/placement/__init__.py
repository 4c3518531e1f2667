"""Subscribers to brokers: whom each leaf of a broker tree serves, and which events each broker is sent.

`problem` says what is given and what is allowed, what an algorithm returns, and has an `audit` that checks one against
the other from scratch. The setting is that of Yu, Agarwal and Yang, Subscriber Assignment for Wide-Area Content-Based
Publish/Subscribe (TKDE 2012).
"""
