// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package memory

import "errors"

const hugePage = 2 << 20

func mapHuge(size, prot, flags int) ([]byte, error) { return nil, errors.ErrUnsupported }
