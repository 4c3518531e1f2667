"""What brokers say to each other and write down: messages, their form as bytes, snapshots."""
