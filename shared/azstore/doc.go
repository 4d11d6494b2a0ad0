// Package azstore opens an Azure Storage account, or the Azurite emulator:
//
//	account, err := azstore.OpenFromEnv("LETTERS")
//
// An [Account] has the clients of Microsoft's SDKs for blobs, queues and tables. What it adds
// to them: the paper's retry strategies (T11), which count the tries; status and code of every
// error, also inside a table batch (Q15); errors and log attributes without signatures; counts
// of all requests; one prefix for all names, so that many stacks share an account.
//
// Package tablestore is the table layer that keeps the service's limits, blobstore the same
// care for blobs, and rowstream reads many partitions as one list. Tests have an account from
// azuritetest.
//
// Marks such as (T11) are rows of the two papers on Azure's queues and tables that
// https://github.com/cutroom/cutroom/blob/main/docs/papers.md lists.
package azstore
