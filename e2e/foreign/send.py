# Sends a greeting for each name to a queue of ours, with Python's standard library alone. The
# address of the queue is signed: it is all that this program may do, and it needs no key.
#   QUEUE_URL='https://…/<queue>?sv=…&sig=…' python3 send.py Ada Grace
import base64, json, os, sys, urllib.request

address, signature = os.environ["QUEUE_URL"].split("?")
for person in sys.argv[1:]:
    item = {"specversion": "1.0", "type": "azq.work.greet.v1", "id": f"greet.{person}", "data": {"name": person}}
    text = base64.b64encode(json.dumps(item).encode()).decode()
    body = f"<QueueMessage><MessageText>{text}</MessageText></QueueMessage>".encode()
    urllib.request.urlopen(urllib.request.Request(f"{address}/messages?messagettl=-1&{signature}", body)).close()
