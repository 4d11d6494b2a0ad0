// Command keda asks KEDA's own scalers what they see. Each line of its input is one
// trigger, as a ScaledObject has it, and each line of its output the number that KEDA
// would hand to Kubernetes:
//
//	{"type": "azure-queue", "metadata": {"queueName": "q", ...}, "auth": {"connection": "..."}}
//
// It is a module of its own, so that nothing else depends on KEDA. It takes some minutes
// to compile.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers"
	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"
	autoscaling "k8s.io/api/autoscaling/v2"
)

func main() {
	if err := answer(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// trigger is one entry of a ScaledObject's triggers, with the parameters that its
// TriggerAuthentication resolves to.
type trigger struct {
	Type     string            `json:"type"`
	Metadata map[string]string `json:"metadata"`
	Auth     map[string]string `json:"auth"`
}

func answer(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := json.NewDecoder(in)
	lines.DisallowUnknownFields()
	for {
		var t trigger
		if err := lines.Decode(&t); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a trigger: %w", err)
		}
		seen, err := t.ask(ctx)
		if err != nil {
			return fmt.Errorf("ask the scaler %s: %w", t.Type, err)
		}
		fmt.Fprintln(out, seen)
	}
}

// ask makes the scaler of one trigger and takes its metric, in whole units.
func (t trigger) ask(ctx context.Context) (float64, error) {
	config := &scalersconfig.ScalerConfig{
		TriggerType: t.Type, TriggerMetadata: t.Metadata, AuthParams: t.Auth,
		GlobalHTTPTimeout: 10 * time.Second, MetricType: autoscaling.AverageValueMetricType,
	}
	var scaler scalers.Scaler
	var err error
	switch t.Type {
	case "azure-queue":
		scaler, err = scalers.NewAzureQueueScaler(config)
	case "metrics-api":
		scaler, err = scalers.NewMetricsAPIScaler(config, nil)
	default:
		err = errors.New("no such scaler here")
	}
	if err != nil {
		return 0, err
	}
	defer scaler.Close(ctx)
	values, _, err := scaler.GetMetricsAndActivity(ctx, "cutroom")
	if err != nil {
		return 0, err
	}
	return values[0].Value.AsApproximateFloat64(), nil
}
