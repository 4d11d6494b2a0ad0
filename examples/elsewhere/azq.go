package elsewhere

import (
	"context"
	"errors"

	"github.com/cutroom/cutroom/shared/azq"
)

// StorageQueue handles films from an Azure Storage queue until ctx ends.
func StorageQueue(ctx context.Context, client *azq.Client, encode EncodeJob) error {
	azq.Handle(client, func(ctx context.Context, job *azq.Job[Film]) error {
		err := encode(ctx, job) // calls job.Progress, which renews
		if errors.Is(err, errBroken) {
			err = azq.Permanent(err) // poison now
		}
		return err // poison after the fifth
	})
	return client.Run(ctx)
}

// EncodeJob is Encode that reports its progress.
type EncodeJob func(ctx context.Context, job *azq.Job[Film]) error
