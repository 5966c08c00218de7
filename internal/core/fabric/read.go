// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/ramjet-rdma/ramjet/internal/engine/topology"
)

// ReadTopology reads a topology file and the files that it includes. host selects the GUIDs of nodes that have
// none: joined fabrics have different ones.
func ReadTopology(file string, host int) (*topology.Topology, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("infiniband: %w", err)
	}
	t, err := topology.ParseFor(host, file, text, func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(file), name)
		}
		return os.ReadFile(name)
	})
	if err != nil {
		return nil, fmt.Errorf("infiniband: %w", err)
	}
	return t, nil
}
