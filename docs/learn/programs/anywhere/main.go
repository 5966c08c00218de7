// SPDX-License-Identifier: Apache-2.0

// Anywhere writes into a peer's memory on whatever devices it is given: one for each side.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func main() {
	if len(os.Args) != 3 {
		kit.Check(fmt.Errorf("usage: anywhere DEVICE DEVICE, such as shm:127.0.71.7 shm:127.0.71.8"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	here, there := kit.Must(ramjet.Open(os.Args[1])), kit.Must(ramjet.Open(os.Args[2]))
	defer here.Close()
	defer there.Close()

	pd := kit.Must(there.AllocPD())
	target := kit.Must(pd.AllocMR(64, verbs.LocalWrite|verbs.RemoteWrite))
	where := kit.Must(target.Remote().MarshalBinary())
	l := kit.Must(cm.Listen(ctx, there, ":0", cm.WithPD(pd), cm.WithPrivateData(where)))
	go l.Accept(ctx)

	conn := kit.Must(cm.Dial(ctx, here, l.Addr().String()))
	defer conn.Close()
	var remote verbs.Remote
	kit.Check(remote.UnmarshalBinary(conn.Param().PrivateData[:verbs.RemoteSize]))
	buf := kit.Must(conn.Pool().Get(64))
	n := copy(buf.Bytes(), "the same program")
	kit.Check(conn.Write(ctx, buf.SGE(n), remote))
	kit.Check(target.WaitFor(ctx, func(b []byte) bool { return string(b[:n]) == "the same program" }))

	fmt.Printf("%s: %q\n", here.Query().Kind, kit.Text(target, n))
}
