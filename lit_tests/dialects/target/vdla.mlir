// RUN: tcopt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// An accelerator says the sizes of its memories; the rest has defaults.
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {}
// CHECK: tcopt.target = #target.vdla<results = "i32", features = "", arbitration = "first-come", rows = 1, block_in = 16, block_out = 16, inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768, port_bytes = 8, port_cycles = 1, channels = 1, latency = 16, row_cycles = 1, fetch = 16, fill = 6, gemm_cycles = 1, alu_imm = 1, alu_reg = 2, rewrite = 1, start = 0, queue = 512, tokens = 1024>

// -----

// Memories hold whole entries.
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 1000, acc_bytes = 131072, uop_bytes = 32768>} {}
// CHECK: wgt_bytes = 1000 should be whole entries of 256 bytes

// -----

// Instructions have so many bits for an entry.
module attributes {tcopt.target = #target.vdla<inp_bytes = 65536, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {}
// CHECK: inp_bytes = 65536 are 4096 entries, instructions can address 2048

// -----

// Features have names.
module attributes {tcopt.target = #target.vdla<features = "alu,divide", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {}
// CHECK: feature "divide" should be one of alu, mulh, load_i8

// -----

// Without an alu there is nothing to multiply with.
module attributes {tcopt.target = #target.vdla<features = "mulh", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {}
// CHECK: feature "mulh" requires "alu"

// -----

// Stores write something.
module attributes {tcopt.target = #target.vdla<results = "", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {}
// CHECK: results = "" should name some of i32, i8

// -----

// The port has an order.
module attributes {tcopt.target = #target.vdla<arbitration = "fair", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {}
// CHECK: arbitration "fair" should be one of first-come, priority

// -----

// A port that moves nothing is none.
module attributes {tcopt.target = #target.vdla<port_bytes = 0, inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {}
// CHECK: port_bytes = 0 should be at least 1

// -----

// It has one channel, or one for each direction.
module attributes {tcopt.target = #target.vdla<channels = 3, inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {}
// CHECK: channels = 3 should be 1 or 2
