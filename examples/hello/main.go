// Command hello sends a letter and handles it. The README of azq has this program.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
)

type Letter struct{ To string }

func (Letter) Kind() string { return "letter" } // names the work in messages

func main() {
	account, err := azstore.OpenFromEnv("HELLO") // the emulator, or what AZURE_… and HELLO_… variables name
	if err != nil {
		log.Fatal(err)
	}
	client := azq.Open(account, azq.Options{}) // one queue, as many items at once as cores
	azq.Handle(client, func(ctx context.Context, job *azq.Job[Letter]) error {
		fmt.Println("Dear", job.Data.To) // may run again
		return nil                       // done: the message is deleted
	})
	if _, err := client.Send(context.Background(), Letter{To: "Ada"}); err != nil {
		log.Fatal(err)
	}
	log.Fatal(client.Run(context.Background()))
}
