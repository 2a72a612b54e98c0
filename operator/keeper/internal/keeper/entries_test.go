package keeper

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

func TestAListIsWholeWhenEveryPartIsThereAndTheDigestFits(t *testing.T) {
	const text = `[{"path":"a","kind":"File","mode":420,"content":"eA=="}]`
	sum := sha256.Sum256([]byte(text))
	digest := hex.EncodeToString(sum[:])
	part := func(index int) entriesOrder {
		return entriesOrder{Digest: digest, Index: index, Count: 2, Data: []byte([]string{text[:10], text[10:]}[index])}
	}
	var list entryList
	for _, step := range []struct {
		order   entriesOrder
		isWhole bool
		isError bool
	}{
		{part(1), false, false},
		{part(1), false, false},
		{entriesOrder{Digest: digest, Index: 2, Count: 2}, false, true},
		{entriesOrder{Digest: digest, Index: -1, Count: 2}, false, true},
		{entriesOrder{Digest: digest, Index: 0, Count: 1 << 30}, false, true},
		{part(0), true, false},
		{part(0), true, false},
	} {
		isWhole, err := list.add(step.order)
		if isWhole != step.isWhole || (err != nil) != step.isError {
			t.Fatalf("%+v: %v, %v", step, isWhole, err)
		}
	}
	entries, there := list.of(digest)
	if !there || len(entries) != 1 || entries[0].Path != "a" || string(entries[0].Content) != "x" {
		t.Fatal(entries, there)
	}
	if _, there := list.of("another"); there {
		t.Fatal("another list is there")
	}
	if _, there := list.of(""); !there {
		t.Fatal("no list is always there")
	}
	if _, err := list.add(entriesOrder{Digest: "wrong", Index: 0, Count: 1, Data: []byte(text)}); err == nil {
		t.Fatal("a digest that does not fit was taken")
	}
	list.forget()
	if _, there := list.of(digest); there {
		t.Fatal("it was not forgotten")
	}
}

func TestEntriesAreNotKeptOnceTheWorkspaceIsReady(t *testing.T) {
	text := []byte("[]")
	sum := sha256.Sum256(text)
	order := entriesOrder{Digest: hex.EncodeToString(sum[:]), Count: 1, Data: text}
	k := &keeper{}
	for state, isKept := range map[string]bool{WorkspaceReady: false, WorkspaceEmpty: true} {
		k.change(func(r *Report) { r.Workspace.State = state })
		k.entries.forget()
		if err := k.takeEntries(order); err != nil {
			t.Fatal(err)
		}
		if _, there := k.entries.of(order.Digest); there != isKept {
			t.Errorf("%s: %v", state, there)
		}
	}
}
