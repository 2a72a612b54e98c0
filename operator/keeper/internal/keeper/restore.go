package keeper

import (
	"context"
	"io"

	"sandhold.dev/keeper/internal/tree"
	"sandhold.dev/keeper/internal/wire"
)

// restore fetches a snapshot into the empty workspace and compares it with its manifest. On failure the workspace
// holds a part of it.
func (k *keeper) restore(order prepareOrder) (totals tree.Totals, failure error) {
	conn, err := wire.Dial(context.Background(), k.paths, wire.PurposeRestore, order.Grant)
	if err != nil {
		return totals, err
	}
	defer conn.Close() // the transfer's own last message says whether it is whole
	header, err := conn.Manifest()
	if err != nil {
		return totals, err
	}
	if header.Epoch != order.Source.Epoch || header.Sequence != order.Source.Sequence {
		return totals, tree.Invalidf("asked for snapshot %d-%d, got %d-%d", order.Source.Epoch, order.Source.Sequence,
			header.Epoch, header.Sequence)
	}
	if len(header.Layers) != 1 {
		return totals, tree.Invalidf("the snapshot has %d layers; this keeper reads snapshots of one", len(header.Layers))
	}
	records, err := receiveRecords(conn)
	if err != nil {
		return totals, err
	}
	totals, err = k.receiveLayer(conn, header.Layers[0], records)
	if err != nil {
		return totals, err
	}
	if totals.Files != header.Files || totals.Bytes != header.Bytes {
		return totals, tree.Invalidf("the manifest's header tells of %d files and %d bytes, its records of %d and %d",
			header.Files, header.Bytes, totals.Files, totals.Bytes)
	}
	return totals, conn.End()
}

func receiveRecords(conn *wire.Conn) (*tree.Spool, error) {
	records, err := tree.NewSpool()
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(records, conn.Part()); err != nil {
		return nil, err
	}
	return records, records.Seal()
}

func (k *keeper) receiveLayer(conn *wire.Conn, promised wire.Layer, records *tree.Spool) (tree.Totals, error) {
	layer, err := tree.NewLayerReader(conn.Part())
	if err != nil {
		return tree.Totals{}, err
	}
	defer layer.Close() // lets memory go; whether the layer is whole is told by its digest
	progress := k.tellWorkspace()
	totals, err := tree.Unpack(k.paths.Workspace, records, layer, progress)
	if err != nil {
		return totals, err
	}
	sum, length, err := layer.Sum()
	if err != nil {
		return totals, err
	}
	if sum != promised.SHA256 || length != promised.Bytes {
		return totals, tree.Invalidf("the layer is %d bytes with SHA-256 %s, the manifest promises %d with %s", length, sum,
			promised.Bytes, promised.SHA256)
	}
	return totals, nil
}

// tellWorkspace reports now and then how far a restore is.
func (k *keeper) tellWorkspace() func(tree.Totals) {
	return nowAndThen(func(totals tree.Totals) {
		k.change(func(r *Report) { r.Workspace.Files, r.Workspace.Bytes = totals.Files, totals.Bytes })
	})
}
