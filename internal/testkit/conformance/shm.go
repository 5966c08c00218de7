// SPDX-License-Identifier: Apache-2.0

package conformance

// OfSharedMemory returns the abilities that a device of shared memory lacks, and the tests in which it behaves
// in another way, for its [Fixture].
func OfSharedMemory() (missing map[Ability]string, differs map[string]string) {
	missing = map[Ability]string{
		XRC:             "each message would need the memory of another protection domain",
		GeneralServices: "connections are made through sockets, without management datagrams",
	}
	return missing, testsOf("shm")
}
