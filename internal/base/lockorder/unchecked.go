// SPDX-License-Identifier: Apache-2.0

//go:build !lockorder

package lockorder

import "sync"

// Mutex is a mutex at a place of the order.
type Mutex[P Place] struct{ sync.Mutex }
