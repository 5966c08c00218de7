// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// The same as in fold512_amd64.s for processors whose registers have 256 bits: a block of 64
// bytes is a pair of registers. Only AVX2 and VPCLMULQDQ in its VEX encoding.

// FOLD moves acc forward by what the constants k say, onto what is there.
#define FOLD(k, there, acc, t) \
	VPCLMULQDQ $0x00, k, acc, t   \
	VPCLMULQDQ $0x11, k, acc, acc \
	VPXOR      there, acc, acc    \
	VPXOR      t, acc, acc

// JOIN folds the four blocks in Y0 to Y7 onto one, Y0 and Y1.
#define JOIN(table) \
	VBROADCASTI128 foldTable_by192(table), Y12 \
	VBROADCASTI128 foldTable_by128(table), Y13 \
	FOLD(Y12, Y6, Y0, Y8)                      \
	FOLD(Y12, Y7, Y1, Y9)                      \
	FOLD(Y13, Y0, Y2, Y10)                     \
	FOLD(Y13, Y1, Y3, Y11)                     \
	FOLD(Y14, Y2, Y4, Y8)                      \
	FOLD(Y14, Y3, Y5, Y9)                      \
	VMOVDQA Y4, Y0                             \
	VMOVDQA Y5, Y1

// REDUCE makes the CRC of Y0 and Y1: first 512 bits become 96, times x^32; then these become
// 32 as Barrett does, taking off P times the quotient of the upper 64, which are the lower
// half of the register. SSE instructions are slow while upper halves are in use, and so are
// task switches.
#define REDUCE(table, crc) \
	VMOVDQU      foldTable_lanes(table), Y2    \
	VMOVDQU      foldTable_lanes+32(table), Y3 \
	VPCLMULQDQ   $0x00, Y2, Y0, Y4             \
	VPCLMULQDQ   $0x11, Y2, Y0, Y0             \
	VPCLMULQDQ   $0x00, Y3, Y1, Y5             \
	VPCLMULQDQ   $0x11, Y3, Y1, Y1             \
	VPXOR        Y4, Y0, Y0                    \
	VPXOR        Y5, Y1, Y1                    \
	VPXOR        Y1, Y0, Y0                    \
	VEXTRACTI128 $1, Y0, X1                    \
	VPXOR        X1, X0, X0                    \
	VMOVDQU      foldTable_barrett(table), X1  \
	VPCLMULQDQ   $0x00, X1, X0, X2             \
	VPCLMULQDQ   $0x10, X1, X2, X2             \
	VPXOR        X2, X0, X0                    \
	VPEXTRD      $2, X0, crc                   \
	NOTL         crc                           \
	VZEROUPPER

// SPREAD writes 64 zeroes and Y0 and Y1 to the frame: from n bytes on they are the first of
// two blocks that end n bytes behind Y1, and 64 bytes on starts the second.
#define SPREAD \
	VPXOR   Y2, Y2, Y2        \
	VMOVDQU Y2, block-192(SP) \
	VMOVDQU Y2, block-160(SP) \
	VMOVDQU Y0, block-128(SP) \
	VMOVDQU Y1, block-96(SP)

// func fold256(table *foldTable, state uint32, data []byte) uint32
TEXT ·fold256(SB), NOSPLIT, $192-44
	MOVQ           table+0(FP), DX
	MOVL           state+8(FP), AX
	MOVQ           data_base+16(FP), SI
	MOVQ           data_len+24(FP), CX
	VBROADCASTI128 foldTable_by64(DX), Y14
	NOTL           AX
	VMOVD          AX, X0
	VPXOR          (SI), Y0, Y0            // the state adds to the first four bytes
	VMOVDQU        32(SI), Y1
	CMPQ           CX, $256
	JB             advance

	// Eight chains at a time: some are still in the multiplier when the next starts.
	VMOVDQU        64(SI), Y2
	VMOVDQU        96(SI), Y3
	VMOVDQU        128(SI), Y4
	VMOVDQU        160(SI), Y5
	VMOVDQU        192(SI), Y6
	VMOVDQU        224(SI), Y7
	VBROADCASTI128 foldTable_by256(DX), Y15

next:
	ADDQ $256, SI
	SUBQ $256, CX
	CMPQ CX, $256
	JB   join
	FOLD(Y15, 0(SI), Y0, Y8)
	FOLD(Y15, 32(SI), Y1, Y9)
	FOLD(Y15, 64(SI), Y2, Y10)
	FOLD(Y15, 96(SI), Y3, Y11)
	FOLD(Y15, 128(SI), Y4, Y8)
	FOLD(Y15, 160(SI), Y5, Y9)
	FOLD(Y15, 192(SI), Y6, Y10)
	FOLD(Y15, 224(SI), Y7, Y11)
	JMP  next

join:
	JOIN(DX)
	JMP single

advance:
	ADDQ $64, SI
	SUBQ $64, CX

single:
	CMPQ CX, $64
	JB   rest
	FOLD(Y14, 0(SI), Y0, Y8)
	FOLD(Y14, 32(SI), Y1, Y9)
	JMP  advance

rest:
	TESTQ CX, CX
	JZ    reduce

	// The last 64 bytes of data hold the rest, 1 to 63 bytes; a mask takes off those before.
	SPREAD
	VMOVDQU Y2, block-64(SP)
	VMOVDQU Y2, block-32(SP)
	LEAQ    ·lastBytes(SB), BX
	VMOVDQU (BX)(CX*1), Y3
	VMOVDQU 32(BX)(CX*1), Y4
	ADDQ    CX, SI
	VPAND   -64(SI), Y3, Y3
	VPAND   -32(SI), Y4, Y4
	LEAQ    block-192(SP), BX
	VMOVDQU (BX)(CX*1), Y0
	VMOVDQU 32(BX)(CX*1), Y1
	VPXOR   64(BX)(CX*1), Y3, Y3
	VPXOR   96(BX)(CX*1), Y4, Y4
	FOLD(Y14, Y3, Y0, Y8)
	FOLD(Y14, Y4, Y1, Y9)

reduce:
	REDUCE(DX, AX)
	MOVL AX, ret+40(FP)
	RET

// PASS copies 32 bytes and folds acc onto them.
#define PASS(k, off, acc, t, block) \
	VMOVDQU off(SI), block \
	VMOVDQU block, off(DI) \
	FOLD(k, block, acc, t)

// func copyFold256(table *foldTable, state uint32, dst *byte, src []byte) uint32
TEXT ·copyFold256(SB), NOSPLIT, $192-52
	MOVQ           table+0(FP), DX
	MOVL           state+8(FP), AX
	MOVQ           dst+16(FP), DI
	MOVQ           src_base+24(FP), SI
	MOVQ           src_len+32(FP), CX
	VBROADCASTI128 foldTable_by64(DX), Y14
	NOTL           AX
	VMOVD          AX, X2
	VMOVDQU        (SI), Y0
	VMOVDQU        Y0, (DI)
	VPXOR          Y2, Y0, Y0
	VMOVDQU        32(SI), Y1
	VMOVDQU        Y1, 32(DI)
	CMPQ           CX, $256
	JB             advance
	VMOVDQU        64(SI), Y2
	VMOVDQU        Y2, 64(DI)
	VMOVDQU        96(SI), Y3
	VMOVDQU        Y3, 96(DI)
	VMOVDQU        128(SI), Y4
	VMOVDQU        Y4, 128(DI)
	VMOVDQU        160(SI), Y5
	VMOVDQU        Y5, 160(DI)
	VMOVDQU        192(SI), Y6
	VMOVDQU        Y6, 192(DI)
	VMOVDQU        224(SI), Y7
	VMOVDQU        Y7, 224(DI)
	VBROADCASTI128 foldTable_by256(DX), Y15

next:
	ADDQ $256, SI
	ADDQ $256, DI
	SUBQ $256, CX
	CMPQ CX, $256
	JB   join
	PASS(Y15, 0, Y0, Y8, Y12)
	PASS(Y15, 32, Y1, Y9, Y13)
	PASS(Y15, 64, Y2, Y10, Y12)
	PASS(Y15, 96, Y3, Y11, Y13)
	PASS(Y15, 128, Y4, Y8, Y12)
	PASS(Y15, 160, Y5, Y9, Y13)
	PASS(Y15, 192, Y6, Y10, Y12)
	PASS(Y15, 224, Y7, Y11, Y13)
	JMP  next

join:
	JOIN(DX)
	JMP single

advance:
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $64, CX

single:
	CMPQ CX, $64
	JB   rest
	PASS(Y14, 0, Y0, Y8, Y12)
	PASS(Y14, 32, Y1, Y9, Y13)
	JMP  advance

rest:
	TESTQ CX, CX
	JZ    reduce

	// The rest, 1 to 63 bytes, is read once, in pieces of 32, 16, … bytes that go to dst and
	// behind Y1 in the frame.
	SPREAD
	LEAQ    block-64(SP), BX
	TESTQ   $32, CX
	JZ      sixteen
	VMOVDQU (SI), Y3
	VMOVDQU Y3, (DI)
	VMOVDQU Y3, (BX)
	ADDQ    $32, SI
	ADDQ    $32, DI
	ADDQ    $32, BX

sixteen:
	TESTQ   $16, CX
	JZ      eight
	VMOVDQU (SI), X3
	VMOVDQU X3, (DI)
	VMOVDQU X3, (BX)
	ADDQ    $16, SI
	ADDQ    $16, DI
	ADDQ    $16, BX

eight:
	TESTQ $8, CX
	JZ    four
	MOVQ  (SI), R9
	MOVQ  R9, (DI)
	MOVQ  R9, (BX)
	ADDQ  $8, SI
	ADDQ  $8, DI
	ADDQ  $8, BX

four:
	TESTQ $4, CX
	JZ    two
	MOVL  (SI), R9
	MOVL  R9, (DI)
	MOVL  R9, (BX)
	ADDQ  $4, SI
	ADDQ  $4, DI
	ADDQ  $4, BX

two:
	TESTQ $2, CX
	JZ    one
	MOVW  (SI), R9
	MOVW  R9, (DI)
	MOVW  R9, (BX)
	ADDQ  $2, SI
	ADDQ  $2, DI
	ADDQ  $2, BX

one:
	TESTQ $1, CX
	JZ    joined
	MOVB  (SI), R9
	MOVB  R9, (DI)
	MOVB  R9, (BX)

joined:
	LEAQ    block-192(SP), BX
	VMOVDQU (BX)(CX*1), Y0
	VMOVDQU 32(BX)(CX*1), Y1
	FOLD(Y14, 64(BX)(CX*1), Y0, Y8)
	FOLD(Y14, 96(BX)(CX*1), Y1, Y9)

reduce:
	REDUCE(DX, AX)
	MOVL AX, ret+48(FP)
	RET
