// SPDX-License-Identifier: Apache-2.0

package ibta

// Window returns the window of the flow at present.
func (f *Flow) Window() int { return f.allows.Window }

// SetWindow changes it, as losses and acknowledgements do.
func (f *Flow) SetWindow(n int) { f.allows.Window = n }
