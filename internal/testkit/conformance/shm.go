// SPDX-License-Identifier: Apache-2.0

package conformance

// OfSharedMemory returns what a device of shared memory is without, and what it does otherwise, for its
// [Fixture].
func OfSharedMemory() (missing map[Ability]string, differs map[string]string) {
	missing = map[Ability]string{
		XRC:             "each message would need the memory of another protection domain",
		GeneralServices: "connections are made through sockets, without management datagrams",
	}
	return missing, testsOf("shm")
}
