package tree

import (
	"io"
	"os"
	"testing"
)

// BenchmarkArchive archives the tree at $SANDHOLD_BENCH_TREE to nowhere.
func BenchmarkArchive(b *testing.B) {
	root := os.Getenv("SANDHOLD_BENCH_TREE")
	if root == "" {
		b.Skip("SANDHOLD_BENCH_TREE names no tree")
	}
	for b.Loop() {
		records, err := NewSpool()
		if err != nil {
			b.Fatal(err)
		}
		layer, err := NewLayerWriter(io.Discard)
		if err != nil {
			b.Fatal(err)
		}
		totals, err := Archive(root, Scope{}, layer, records, func(Totals) {})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(totals.RawBytes)
	}
}
