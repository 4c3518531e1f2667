"""Problems by name: brokers and subscribers as people state them, and attributes of any kind as axes."""
