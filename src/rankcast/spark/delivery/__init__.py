"""The delivery stage: shards of queues whose state Spark keeps."""
