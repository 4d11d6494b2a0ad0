package elsewhere

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// ServiceBus handles the next film of an Azure Service Bus queue.
func ServiceBus(ctx context.Context, queue *azservicebus.Receiver, encode Encode) error {
	messages, err := queue.ReceiveMessages(ctx, 1, nil) // pushed: no polling
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	m := messages[0]
	renew := func(ctx context.Context) error { return queue.RenewMessageLock(ctx, m, nil) }
	err = renewing(ctx, time.Until(*m.LockedUntil), renew, film(m.Body, encode))
	switch {
	case errors.Is(err, errBroken):
		return queue.DeadLetterMessage(ctx, m, nil)
	case err != nil:
		return queue.AbandonMessage(ctx, m, nil) // visible at once
	}
	return queue.CompleteMessage(ctx, m, nil)
}
