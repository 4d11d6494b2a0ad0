// Command partition-stress shows which PartitionKey carries which load (paper
// rows T3, T9, S1 to S3): `make partition-stress`.
//
// Without further ado it runs against Azurite behind a model of Azure's
// partition servers. With AZURE_STORAGE_CONNECTION_STRING it stresses that
// account instead, in tables of its own that it deletes: everything is measured
// then, and the requests cost money.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cutroom/cutroom/e2e/command"
	"github.com/cutroom/cutroom/e2e/partitions"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/azstore"
)

func main() { command.Main("partition-stress", run) }

func run(ctx context.Context) error {
	o := partitions.Stress{Log: os.Stderr}
	flag.Float64Var(&o.Scale, "scale", 50, "the model's budgets are Azure's divided by this")
	flag.DurationVar(&o.Step, "step", 5*time.Second, "how long each load is held")
	flag.IntVar(&o.Rows, "rows", 500, "rows in each table before")
	flag.Float64Var(&o.Peak, "peak", 8, "highest load, in times 2,000 entities/s, scaled")
	out := flag.String("out", "", "folder for partition-stress.svg, .md and .json (default .run in the repository)")
	flag.Parse()
	if connection := os.Getenv("AZURE_STORAGE_CONNECTION_STRING"); connection != "" && connection != azstore.DevelopmentStorage {
		o.ConnectionString = connection
		fmt.Println("stressing the account of AZURE_STORAGE_CONNECTION_STRING: everything is measured")
	} else {
		fmt.Printf("stressing Azurite behind a model of partition servers, scale 1:%g: limits, splits and moves are modelled, the rest is measured\n", o.Scale)
	}
	found, err := o.Run(ctx)
	if err != nil {
		return err
	}
	fmt.Print(found.Head(), found.Section().Text())
	if *out == "" {
		root, err := stack.Root()
		if err != nil {
			return err
		}
		*out = filepath.Join(root, ".run")
	}
	data, err := json.MarshalIndent(found, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil { //nolint:gosec // reports
		return fmt.Errorf("make the folder of the reports: %w", err)
	}
	var names []string
	for ending, content := range map[string][]byte{"svg": found.SVG(), "md": []byte("# Partition stress\n\n" + found.Head() + "\n" + found.Section().Markdown()), "json": data} {
		name := filepath.Join(*out, "partition-stress."+ending)
		if err := os.WriteFile(name, content, 0o644); err != nil { //nolint:gosec // reports
			return fmt.Errorf("write a report: %w", err)
		}
		names = append(names, name)
	}
	fmt.Println("written: " + strings.Join(names, ", "))
	return nil
}
