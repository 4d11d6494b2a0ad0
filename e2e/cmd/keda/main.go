// Command keda compares what the web role says of the queues with what KEDA's own
// scalers say of them. `make test-deploy` runs it.
//
//	scripts/gorun keda -scaler PROGRAM < TRIGGER
//
// PROGRAM is deploy/kubernetes/keda, built. The trigger is that of the chart's
// ScaledObject, as JSON: type and metadata.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/cutroom/cutroom/e2e/command"
	"github.com/cutroom/cutroom/e2e/kedascaler"
)

func main() {
	scaler := flag.String("scaler", "", "the program that asks KEDA's scalers")
	flag.Parse()
	command.Main("keda", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
		defer cancel()
		var chart kedascaler.Trigger
		if err := json.NewDecoder(os.Stdin).Decode(&chart); err != nil {
			return fmt.Errorf("read the chart's trigger: %w", err)
		}
		return kedascaler.Run(ctx, *scaler, chart, os.Stdout)
	})
}
