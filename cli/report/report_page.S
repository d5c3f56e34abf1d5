# The page that a report fills in, in the program's read-only data.
        .section .rodata
        .global moelab_report_page_begin
moelab_report_page_begin:
        .incbin MOELAB_REPORT_PAGE
        .global moelab_report_page_end
moelab_report_page_end:
        .byte 0
        .section .note.GNU-stack, "", %progbits
