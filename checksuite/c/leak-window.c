/* SPDX-License-Identifier: Apache-2.0 */

/* All is destroyed but a window, and with it its domain and the device. */

#include "suite.h"

int main(void)
{
	struct ibv_mw *mw;

	open_device();
	CHECK((mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2)));
	if (MISTAKE)
		return 0;
	CHECK(!ibv_dealloc_mw(mw));
	return finish();
}
