; Made from setting.c by generate.py. Do not edit.

@tcopt_num_threads = weak hidden global i32 0, align 4
@tcopt_stop = weak hidden global i32 0, align 4

define weak void @tcopt_set_threads(i32 %number) nounwind {
entry:
  store atomic i32 %number, ptr @tcopt_num_threads monotonic, align 4
  ret void
}

define weak void @tcopt_cancel(i32 %number) nounwind {
entry:
  store atomic i32 %number, ptr @tcopt_stop monotonic, align 4
  ret void
}
