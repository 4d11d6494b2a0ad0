// Package product knows the product's name, where it is stored or read: in the type of
// messages and in the names of settings. Everywhere else the name is plain text, which
// `make fork` replaces.
package product

// Name is the first word of the CloudEvents type of every work item
// ("cutroom.work.encode.v1") and, in capitals, of the settings of both roles
// (CUTROOM_PREFIX).
const Name = "cutroom"
