// Package rowstream reads rows from several partitions, in the order of their
// RowKeys, as if they were one list: a list that a suffix spreads over partitions
// (paper rows S2, S3), or the posting lists of a search.
//
// A list has one operation, Seek: the first row at or after a RowKey. It answers from rows
// that were read ahead, or asks the table for `RowKey ge …`, a row range scan (T5). So union
// and intersection are streaming merges.
package rowstream
