package elsewhere

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

const lease = 60 // seconds

// AmazonSQS handles the next film of an Amazon SQS queue, if one comes within 20 s.
func AmazonSQS(ctx context.Context, client *sqs.Client, queue string, encode Encode) error {
	got, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &queue, VisibilityTimeout: lease, WaitTimeSeconds: 20})
	if err != nil || len(got.Messages) == 0 {
		return err
	}
	m := got.Messages[0]
	renew := func(ctx context.Context) error {
		_, err := client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
			QueueUrl: &queue, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: lease})
		return err
	}
	if err := renewing(ctx, lease*time.Second, renew, film([]byte(*m.Body), encode)); err != nil {
		return err // comes again after the lease, maxReceiveCount times
	}
	_, err = client.DeleteMessage(ctx, &sqs.DeleteMessageInput{
		QueueUrl: &queue, ReceiptHandle: m.ReceiptHandle})
	return err
}
