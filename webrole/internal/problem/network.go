package problem

import (
	"errors"
	"net"
)

// unreachable reports whether err comes from the network: the service is away,
// which is the operator's trouble and not a fault of the program.
func unreachable(err error) bool {
	var network net.Error
	return errors.As(err, &network)
}
