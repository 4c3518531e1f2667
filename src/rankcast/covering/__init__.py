"""When does one filter contain another? `relation` answers for two filters; sets of subscriptions build on it."""
