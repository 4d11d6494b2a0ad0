// Package product knows the product's name, and the name that it had before.
// Both matter where the name outlives a process: in messages that wait in a
// queue, and in the settings of a machine.
//
// Everywhere else the name is plain text, which `make fork` replaces; it writes
// the former name here. docs/fork.md says how a running system is renamed.
package product

import (
	"errors"
	"fmt"
	"strings"
)

// Name is the first word of the CloudEvents type of every work item
// ("cutroom.work.encode.v1") and, in capitals, of the settings of both roles
// (CUTROOM_PREFIX).
const Name = "cutroom"

// FormerName is the name before the latest `make fork`: work items that carry it
// are still read. It is Name when the product was never renamed, or when no queue
// holds an old message any more.
const FormerName = Name

// CheckSettings returns one error for every variable of environ ("NAME=value",
// as from os.Environ) that carries the former name: it would be ignored without
// a word. The error names the variable to set instead.
func CheckSettings(environ []string) error {
	return checkSettings(environ, FormerName, Name)
}

func checkSettings(environ []string, former, name string) error {
	if former == name {
		return nil
	}
	var problems []error
	for _, setting := range environ {
		variable, _, _ := strings.Cut(setting, "=")
		if rest, old := strings.CutPrefix(variable, strings.ToUpper(former)+"_"); old {
			problems = append(problems, fmt.Errorf("%s is a setting of the product's former name: set %s_%s instead", variable, strings.ToUpper(name), rest))
		}
	}
	return errors.Join(problems...)
}
