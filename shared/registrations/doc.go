// Package registrations stores the runners of races: the paper's own example of dual RowKeys
// and composite keys (rows T2, T6, T7, S1), made useful. Each runner has three rows, written in
// one transaction, and videos that show a race have one, kept by shared/indexrows (T8):
// docs/patterns/dual-rowkey-and-composite-keys.md, and docs/data-model.md for the keys.
//
// Next: webrole/internal/startlist, how a start list is read.
package registrations
