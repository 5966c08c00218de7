// SPDX-License-Identifier: Apache-2.0

package ramjet_test

import "github.com/ramjet-rdma/ramjet/internal/testkit/loopback"

// loopbackAddress returns an address of the loopback interface that no other test has.
func loopbackAddress() string { return loopback.Next().String() }
