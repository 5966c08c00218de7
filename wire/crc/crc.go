// SPDX-License-Identifier: Apache-2.0

// Package crc has the two CRCs of RDMA, faster than hash/crc32 where the processor can: the
// CRC-32 of InfiniBand's packets and the CRC32C of iWARP's FPDUs.
package crc

import "hash/crc32"

var castagnoliTable = crc32.MakeTable(crc32.Castagnoli)
